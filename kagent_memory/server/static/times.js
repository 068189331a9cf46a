// Show times in the browser's time zone. Without this script they are in UTC.
const format = new Intl.DateTimeFormat(undefined, {
  calendar: "gregory", numberingSystem: "latn", hourCycle: "h23",
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
  timeZoneName: "short",
});
for (const time of document.querySelectorAll('time[datetime*="T"]')) {
  const part = {};
  for (const { type, value } of format.formatToParts(new Date(time.dateTime))) part[type] = value;
  const day = [part.year.padStart(4, "0"), part.month, part.day].join("-");
  const local = `${day} ${part.hour}:${part.minute} ${part.timeZoneName}`;
  if (time.title) time.title = local; // the text is relative: 3 days ago
  else [time.title, time.textContent] = [time.textContent, local];
}
