package images

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/cli"
)

// TestBarInALog prints a line at times, and none for a download that is short.
func TestBarInALog(t *testing.T) {
	var out bytes.Buffer
	a := &commands{Streams: cli.NewStreams(strings.NewReader(""), io.Discard, &out, os.Getenv)}
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
