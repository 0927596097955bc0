package qemu

import (
	"bytes"
	"regexp"
	"strings"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/reach/conn"
)

// consoleLimit bounds what is kept of a console, in bytes.
const consoleLimit = 48 << 10

// console keeps the end of what a machine printed.
type console struct {
	mu   sync.Mutex
	tail conn.Tail
}

func newConsole(limit int) *console { return &console{tail: conn.Tail{Limit: limit}} }

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tail.Write(p)
}

func (c *console) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.tail.Bytes())
}

// signs are console lines that explain the end of a guest, the most specific
// first.
var signs = []struct {
	line *regexp.Regexp
	says string
}{
	{regexp.MustCompile(`Out of memory and no killable processes|System is deadlocked on memory|` +
		`Initramfs unpacking failed: write error`), "the guest ran out of memory: "},
	{regexp.MustCompile(`bakeoff-agent: init: .*`), "its init failed: "},
	{regexp.MustCompile(`Kernel panic - not syncing: .*`), "its kernel panicked: "},
	{regexp.MustCompile(`Out of memory: Killed process .*`), "the guest ran out of memory: "},
	{regexp.MustCompile(`BUG: .*|Oops: .*`), "its kernel failed: "},
}

// diagnose finds the reason for the end of a guest in its console; "" if there
// is none.
func diagnose(text []byte) string {
	for _, s := range signs {
		if m := s.line.Find(text); m != nil {
			line, _, _ := bytes.Cut(m, []byte("\n"))
			return s.says + strings.TrimSpace(safetext.Line(string(line)))
		}
	}
	return ""
}

// ending is how a QEMU process ended.
type ending struct {
	exit conn.Exit
	err  error // the connection to the host broke
}

// explain classifies the end of a machine from the output of QEMU and its
// guest.
//
// QEMU ends with code 0 if the guest restarted, panicked or powered itself off:
// that is the subject's fault. If QEMU refuses its arguments it ends with
// another code: that is the lab's fault.
func explain(e ending, stderr, text []byte) error {
	said := safetext.LastLines(string(stderr), 3)
	if said != "" {
		said = ": " + said
	}
	switch {
	case e.err != nil:
		return fault.Op("the machine's process", e.err)
	case e.exit.OK():
		why := diagnose(text)
		if why == "" {
			why = "the guest powered itself off"
		}
		return withConsole(fault.New(fault.Subject, "%s", why), text)
	case e.exit.Signal != "":
		return withConsole(fault.New(fault.Lab, "QEMU was killed by a signal: %s%s", e.exit.Signal, said), text)
	}
	return withConsole(fault.New(fault.Lab, "QEMU failed (exit code %d)%s", e.exit.Code, said), text)
}

// withConsole adds the end of the console to an error.
func withConsole(err error, text []byte) error {
	end := safetext.LastLines(string(text), 15)
	if end == "" {
		return fault.New(fault.Of(err), "%w (the console is empty)", err)
	}
	return fault.New(fault.Of(err), "%w\nthe end of the console:\n%s", err, end)
}
