package content

import (
	"strings"
	"time"

	"bakeoff/base/fault"
)

// layouts are the dates of BSSG, those of RFC 3339 that Hugo writes, and those of Pelican and Astro.
var layouts = []string{
	"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 -07:00", "2006-01-02 15:04:05", "2006-01-02 15:04 -0700",
	"2006-01-02 15:04", "2006-01-02", time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04",
	"2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05Z07:00", "2006/01/02", "2006/01/02 15:04:05",
	"2006/01/02 15:04:05 -0700", "2006/01/02 15:04:05 -07:00", "2006/01/02 15:04",
	"2006-01-02T15:04Z07:00", "Jan 2 2006", "Jan 2, 2006", "January 2, 2006", "2 January 2006",
}

// named are the abbreviations whose meaning is the same everywhere. Nikola writes UTC+02:00.
var named = strings.NewReplacer(" UTC+", " +", " UTC-", " -", " UTC", " +0000",
	" GMT", " +0000", " CET", " +0100", " CEST", " +0200")

// ParseDate reads a date; zone is used where it names none. An error of kind
// fault.Invalid shows a date as it should be.
func ParseDate(s string, zone *time.Location) (time.Time, error) {
	s = named.Replace(strings.Join(strings.Fields(s), " "))
	for _, l := range layouts {
		// Years of four digits only: feeds and addresses have no others.
		if t, err := time.ParseInLocation(l, s, zone); err == nil && t.Year() >= 1000 && t.Year() <= 9998 {
			return withoutZoneName(t), nil
		}
	}
	return time.Time{}, fault.WithFix(fault.New(fault.Invalid, "%q is not a date", s),
		"write a date such as 2026-01-31 12:00:00 +0100")
}

// withoutZoneName returns t without the name of its zone: a date is then the same however it was
// stored.
func withoutZoneName(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.In(time.FixedZone("", offset))
}
