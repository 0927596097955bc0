package tool

import (
	"errors"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

func TestVersions(t *testing.T) {
	d := Doc{Name: "x", Program: "x", Tried: []string{"1.1.1", "3.0", "3.5"}, Least: "1.1"}
	for version, want := range map[string]string{
		"1.1.1w": "", "1.1.1": "", "3.0.19": "", "3.5.99": "", "2.9": "",
		"1.1.0l": "tested with the output of x 1.1.1 to 3.5, and this is version 1.1.0l", "3.6.0": "this is version 3.6.0",
		"10.0":   "this is version 10.0",
		"1.0.2u": "too old", "0.9": "too old",
	} {
		warning, err := d.Check(version)
		got := warning
		if err != nil {
			got = err.Error()
			if !fault.Is(err, fault.Subject) || fault.Fix(err) == "" || warning != "" {
				t.Errorf("%s: %v, %q", version, err, warning)
			}
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}

// What cannot be read is reported with the version, and with those that were tried if it
// is none of them.
func TestUnread(t *testing.T) {
	d := Doc{Name: "x", Tried: []string{"1.0"}}
	for version, want := range map[string]string{
		"":      "x: no rate",
		"1.0.3": "x 1.0.3: no rate",
		"1.1.0": "x 1.1.0: no rate; install version 1.0, which bakeoff was tried with",
	} {
		if err := d.Unread(version, errors.New("no rate")); err.Error() != want {
			t.Errorf("%q: %v", version, err)
		}
	}
	if err := d.Unread("1.1.0", fault.New(fault.Subject, "it failed")); err.Error() != "x 1.1.0: it failed" {
		t.Error(err)
	}
	if d.Unread("1", nil) != nil {
		t.Error("no error is one")
	}
}
