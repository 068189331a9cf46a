"""Save the summaries that ADK's compaction makes, and extract facts only from the other turns."""

import asyncio
from datetime import UTC, datetime

from kagent_memory import CompactionAwareSummary, Memories, Message, PassthroughSummary, Scope

SCOPE = Scope("", "ada", "desk")


def at(second: int) -> datetime:
    return datetime.fromtimestamp(1_760_000_000 + second, UTC)


async def main() -> None:
    summary = CompactionAwareSummary(PassthroughSummary())
    async with await Memories.open("libsql:///:memory:", summary=summary) as memories:
        transcript = [
            Message(text="Let us plan the trip.", event_id="e1", at=at(0)),
            Message(text="To Lisbon, in May.", event_id="e2", at=at(1)),
            Message(
                text="Ada plans a trip to Lisbon in May.",
                role="agent",
                event_id="c1",
                at=at(2),
                compaction=(at(0).timestamp(), at(1).timestamp()),
            ),
            Message(text="And Grace comes along.", event_id="e3", at=at(3)),
        ]
        await memories.remember(SCOPE, transcript, "trip")
        await memories.drain()
        for memory in (await memories.list(SCOPE, order="oldest")).memories:
            print(memory.content)


if __name__ == "__main__":
    asyncio.run(main())
