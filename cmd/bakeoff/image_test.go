package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestBarInALog prints a line at times, and none for a download that is short.
func TestBarInALog(t *testing.T) {
	var out bytes.Buffer
	a := newApp(&out, "")
	a.Err = &out
	b := &bar{a: a}
	b.countTo("pulling x", 1<<20, 10<<20)
	if out.Len() > 0 {
		t.Errorf("a line at the beginning: %q", out.String())
	}
	b.began = time.Now().Add(-2 * barLine)
	b.countTo("pulling x", 5<<20, 10<<20)
	b.countTo("pulling x", 6<<20, 10<<20)
	b.endLine()
	if got := out.String(); got != "pulling x 5.0 MiB of 10.0 MiB\n" {
		t.Errorf("%q", got)
	}
}

func TestParsableFieldsAreEscaped(t *testing.T) {
	var out bytes.Buffer
	a := newApp(&out, "")
	columns := []column[string]{{"text", func(s string) string { return s }}, {"size", func(string) string { return "" }}}
	l := &chosen{columns: "text,size", parsable: true}
	if err := printRows(a, l, []string{`a:b\c` + "\x1b[31m"}, columns); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, `a\:b\\c`) || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
