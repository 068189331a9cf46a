"""The page in a real headless Chromium: every flow clicked, without JavaScript, narrow and wide,
light and dark.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from optional import program
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Scope
from kagent_memory.testing import FrozenClock
from kagent_memory.testing.fixtures import a_job, delivery

from .ground import START, dead_letter, served

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

SCOPE = Scope("", "ada", "travel_agent")
QUERY = "app=travel_agent&user=ada"
HOSTILE = [
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
    "</textarea></pre>\"'><svg onload=alert(1)>{{ 7*7 }} {% raw %}",
    "\u202eright to left override \u2066 and عربى with 日本語 🦀",
    "x" * 3000,
    "javascript:alert(1)",
]
LISBON = "The Lisbon trip was moved from May to July"
FACTS = [
    Fact("Book rail passes before the summer rush", type="procedural", ttl_days=40),
    Fact("Short answers work better than long ones", type="reflective", ttl_days=60),
    Fact(
        "The Lisbon trip was moved from May to June",
        type="episodic",
        topics=("travel", "Lisbon"),
        ttl_days=30,
        happened_at=START,
    ),
    Fact(
        "Ada prefers window seats on night trains",
        topics=("travel", "trains"),
        importance=0.8,
        author="assistant",
    ),
    Fact("Ada is allergic to peanuts", topics=("health",), importance=0.95, pinned=True),
]


@pytest.fixture(scope="module")
def chromium() -> str:
    return program("chromium", "google-chrome")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served(_filled) as address:
        yield address


async def _filled() -> Memories:
    now = datetime.now(UTC)
    clock = FrozenClock(START)
    memories = await Memories.open("libsql:///:memory:", worker=False, clock=clock)
    ids: list[str] = []
    for number, fact in enumerate(FACTS):
        clock.now = now - timedelta(days=3 * (len(FACTS) - number))
        ids += await memories.add(SCOPE, [fact], who="tests")
    clock.now = now
    for number, id in enumerate(ids):
        used = delivery(SCOPE, id, times=(12, 4, 1, 0)[number % 4], now=now)
        await memories.store.memories.count([used])
    await memories.edit(SCOPE, ids[2], content=LISBON, who="assistant", why="she said so")
    hostile = [Fact(text, topics=(text[:40],)) for text in HOSTILE]
    await memories.add(Scope("", "eve", "hostile"), hostile)
    await dead_letter(memories, SCOPE, now)
    await memories.store.queue.enqueue([a_job(SCOPE, now=now)])
    return memories


PATIENCE = 30_000.0  # milliseconds; what is waited for is there in some tens of them
expect.set_options(timeout=PATIENCE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=chromium, timeout=PATIENCE)
        yield launched
        await launched.close()


async def patient(browser: Browser, **options: Any) -> BrowserContext:
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    return context


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, server: str) -> AsyncIterator[Page]:
    context = await patient(
        browser, base_url=server, java_script_enabled=False, viewport={"width": 1280, "height": 800}
    )
    yield await context.new_page()
    await context.close()


async def test_one_walk_through_every_page(page: Page):
    """A user finds, writes, corrects, takes back and deletes memories, and sees plots and jobs."""
    await page.goto("/?by=user")
    await page.get_by_role("link", name="travel_agent").click()
    await expect(page.get_by_role("heading", name="Memories")).to_be_visible()
    await expect(page.locator(".badge.hot").first).to_have_text("12")

    await page.get_by_label("Search").fill("when is the Lisbon trip?")
    await page.get_by_role("button", name="Show").click()
    first = page.locator("tbody tr").first
    await expect(first).to_contain_text(LISBON)
    await expect(first.locator("mark")).to_have_text(["Lisbon", "trip"])
    await first.get_by_text("Why").click()
    await expect(first.locator(".why")).to_contain_text("It shares words with your question")

    await page.goto(f"/memories?{QUERY}&type=procedural")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_role("link", name="Dashboard").click()
    await expect(page.locator("svg.plot")).to_have_count(5)
    await page.get_by_role("link", name="Queue").click()
    await expect(page.get_by_text("dead letter", exact=True)).to_be_visible()

    await page.goto(f"/memories?{QUERY}")
    await page.get_by_text("Write a memory").click()
    await page.get_by_label("Content").fill("Ada likes jasmine tea\nand honey")
    await page.get_by_role("button", name="Store").click()
    await expect(page.get_by_role("status").first).to_have_text("The memory is stored.")
    await page.get_by_role("link", name="jasmine").click()
    await page.get_by_label("Content").fill("Ada likes green tea")
    await page.get_by_label("Why").fill("she said so")
    await page.get_by_role("button", name="Save the change").click()
    await expect(page.get_by_role("article")).to_contain_text("Ada likes green tea")
    await page.locator(".history").get_by_text("Before").first.click()

    await page.get_by_role("button", name="Undo the last change").click()
    await expect(page.get_by_role("article")).to_contain_text("jasmine")
    await page.locator("summary").get_by_text("Delete", exact=True).click()
    await page.get_by_role("button", name="Delete this memory").click()
    await expect(page.get_by_role("status").first).to_have_text("Deleted for good.")
    await expect(page.get_by_text("jasmine")).to_have_count(0)


async def test_times_are_shown_in_the_zone_of_the_browser(browser: Browser, server: str):
    """The script of the page shows times in the browser's time zone, and names it."""
    context = await patient(browser, base_url=server, timezone_id="America/New_York")
    page = await context.new_page()
    await page.goto(f"/memories?{QUERY}")
    await page.get_by_text(LISBON).click()
    await expect(page.get_by_text("2026-03-01 07:00 EST")).to_be_visible()
    await context.close()


PAGES = (
    "/",
    f"/memories?{QUERY}",
    f"/memories?{QUERY}&q=<script>lisbon</script>",
    "/memories?app=hostile&user=eve",
    f"/memories/delete-all?{QUERY}",
    f"/dashboard?{QUERY}",
    "/jobs",
    "/login",
)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
async def test_no_page_has_an_axe_finding_or_scrolls_sideways(
    browser: Browser, server: str, width: int, scheme: str
):
    """Every page fits its screen and can be used by everybody, and no content of a memory runs."""
    context = await patient(
        browser,
        base_url=server,
        viewport={"width": width, "height": 844},
        color_scheme=scheme,
        bypass_csp=True,
    )
    page = await context.new_page()
    await page.goto("/memories?app=hostile&user=eve")
    oldest = await page.locator("td.main a.text").last.get_attribute("href")
    for path in (*PAGES, str(oldest)):
        await page.goto(path)
        wide = await page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, f"{path} scrolls {wide} px sideways at {width} px"
        assert not await page.locator(
            "script:not([src='/static/times.js']), img, svg[onload]"
        ).count(), path
        results = await Axe().run(page, options={"resultTypes": ["violations"]})
        assert not results.violations_count, (path, results.generate_report())
        if width == 390 and path == f"/memories?{QUERY}":
            tallest = "lines => Math.max(...lines.map(line => line.offsetHeight))"
            assert await page.locator("td.main .meta").evaluate_all(tallest) < 30, "one line each"
            assert not await page.locator(".memories td:not(.main):not(.choose):visible").count()
    await context.close()
