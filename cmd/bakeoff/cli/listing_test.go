package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

func TestParsableFieldsAreEscaped(t *testing.T) {
	var out bytes.Buffer
	streams := NewStreams(strings.NewReader(""), &out, io.Discard, os.Getenv)
	columns := []Column[string]{{"text", func(s string) string { return s }}, {"size", func(string) string { return "" }}}
	l := &Listing{Columns: "text,size", Parsable: true}
	if err := PrintRows(streams, l, []string{`a:b\c` + "\x1b[31m"}, columns); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, `a\:b\\c`) || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
