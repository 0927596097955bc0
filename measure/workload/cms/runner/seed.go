package runner

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// The data depend on neither randomness nor a clock: all contenders have the
// same calendars.
const (
	// stamp is the date of all records.
	stamp = "2004-04-07 12:00:00+00"
	crlf  = "\r\n"
)

// began is the start of the first event of a calendar; events are five hours
// apart.
var began = time.Date(2004, 5, 1, 8, 0, 0, 0, time.UTC)

func digestOf(format string, args ...any) string {
	sum := md5.Sum(fmt.Appendf(nil, format, args...))
	return hex.EncodeToString(sum[:])
}

func userName(u int) string { return fmt.Sprintf("user%d", u) }

// calendarPath is the path of a calendar in the application, eventPath that of
// an event.
func calendarPath(u int) string { return "/" + userName(u) + "/public/" }

func eventPath(u, e int) string { return fmt.Sprintf("%s%d.ics", calendarPath(u), e) }

func eventID(u, e int) string { return digestOf("event %d of %d", e, u) }

// eventText is one event as a client would have stored it (RFC 5545).
func eventText(u, e int) string {
	const layout = "20060102T150405Z"
	start := began.Add(time.Duration(e) * 5 * time.Hour)
	return strings.Join([]string{
		"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//bakeoff//seed//EN",
		"BEGIN:VEVENT", "UID:" + eventID(u, e), "DTSTAMP:20040407T120000Z",
		"DTSTART:" + start.Format(layout), "DTEND:" + start.Add(time.Hour).Format(layout),
		fmt.Sprintf("SUMMARY:Event %d of user %d", e, u), "DESCRIPTION:" + digestOf("words %d of %d", e, u),
		"END:VEVENT", "END:VCALENDAR", "",
	}, crlf)
}

// seedSQL is the SQL that fills an empty database of the application.
func seedSQL(users, events int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	read := "privilege_to_bits(ARRAY['DAV::read','caldav:read-free-busy'])"
	line("\\set ON_ERROR_STOP on")
	line("BEGIN;")
	for u := 1; u <= users; u++ {
		name, calendar := userName(u), calendarPath(u)
		user, principal, collection := 1000+u, 10000+u, 20000+u
		line("INSERT INTO usr (user_no, active, email_ok, joined, updated, username, password, fullname, email) VALUES "+
			"(%d, true, '%s', '%s', '%s', '%s', '*', 'User %d', '%s@example.org');",
			user, stamp, stamp, stamp, name, u, name)
		line("INSERT INTO principal (principal_id, type_id, user_no, displayname, default_privileges) VALUES (%d, 1, "+
			"%d, 'User %d', %s);", principal, user, u, read)
		line("INSERT INTO collection (collection_id, user_no, parent_container, dav_name, dav_etag, dav_displayname, "+
			"is_calendar, created, modified, publicly_readable, default_privileges, resourcetypes)"+
			" VALUES (%d, %d, '/%s/', '%s', '%s', 'Calendar %d', true, '%s', '%s', true, %s, "+
			"'<DAV::collection/><urn:ietf:params:xml:ns:caldav:calendar/>');",
			collection, user, name, calendar, digestOf("calendar %d", u), u, stamp, stamp, read)
		for e := 1; e <= events; e++ {
			id, etag := 1000000+u*10000+e, digestOf("etag %d of %d", e, u)
			start := began.Add(time.Duration(e) * 5 * time.Hour)
			line("INSERT INTO caldav_data (user_no, dav_name, dav_etag, created, modified, caldav_data, caldav_type, "+
				"logged_user, dav_id, collection_id) VALUES (%d, '%s', '%s', '%s', '%s', E'%s', 'VEVENT', %d, %d, %d);",
				user, eventPath(u, e), etag, stamp, stamp, strings.ReplaceAll(eventText(u, e), crlf, `\r\n`), user, id, collection)
			line("INSERT INTO calendar_item (user_no, dav_name, dav_etag, uid, created, last_modified, dtstamp, dtstart, "+
				"dtend, summary, class, transp, dav_id, collection_id) VALUES (%d, '%s', '%s', '%s', '%s', '%s', '%s', '%s', "+
				"'%s', 'Event %d of user %d', 'PUBLIC', 'OPAQUE', %d, %d);",
				user, eventPath(u, e), etag, eventID(u, e), stamp, stamp, stamp,
				start.Format(time.RFC3339), start.Add(time.Hour).Format(time.RFC3339), e, u, id, collection)
		}
	}
	line("COMMIT;")
	// With statistics the planner always decides the same way, which fixes
	// the order of events.
	line("VACUUM (ANALYZE, FREEZE);")
	return b.String()
}

// page is a page of the application, with a check of its content.
type page struct {
	kind, path string
	// check returns what is wrong with a body; "" if nothing is.
	check func(body []byte) string
}

// publicPages are the public pages: the login page, every calendar, and one event of
// each.
func publicPages(users, events int) []page {
	out := []page{{"login", "/index.php", checkLogin}}
	for u := 1; u <= users; u++ {
		e := 1 + (u-1)%events
		out = append(out,
			page{"calendar", "/public.php" + calendarPath(u),
				func(body []byte) string { return checkCalendar(body, u, events) }},
			page{"event", "/public.php" + eventPath(u, e), func(body []byte) string {
				if string(body) != eventText(u, e) {
					return "differs from the stored event"
				}
				return ""
			}})
	}
	return out
}

func checkLogin(body []byte) string {
	for _, part := range []string{"DAViCal", "<form", `name="username"`, `name="password"`, "</html>"} {
		if !bytes.Contains(body, []byte(part)) {
			return "does not contain " + part
		}
	}
	return ""
}

func checkCalendar(body []byte, u, events int) string {
	if n := bytes.Count(body, []byte("BEGIN:VEVENT"+crlf)); n != events {
		return fmt.Sprintf("has %d events instead of %d", n, events)
	}
	for e := 1; e <= events; e++ {
		if !bytes.Contains(body, []byte("UID:"+eventID(u, e)+crlf)) {
			return fmt.Sprintf("does not contain event %d", e)
		}
	}
	return ""
}
