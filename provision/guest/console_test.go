package guest

import (
	"fmt"
	"strings"
	"testing"
)

// A long trace after the reason does not hide it.
func TestExcerptHasTheReason(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "early %d\n", i)
	}
	b.WriteString("[   1.0] panic: a message of this test\n")
	short := b.String() + "trace\n"
	for i := range 40 {
		fmt.Fprintf(&b, "frame %d\n", i)
	}
	got := Excerpt([]byte(b.String()))
	lines := strings.Split(got, "\n")
	if len(lines) > excerptLines+1 || lines[0] != "[   1.0] panic: a message of this test" ||
		lines[len(lines)-1] != "frame 39" ||
		!strings.Contains(got, "\n…\n") {
		t.Errorf("got %d lines:\n%s", len(lines), got)
	}
	if got := Excerpt([]byte(short)); strings.Count(got, "panic") != 1 || strings.Contains(got, "…") ||
		len(strings.Split(got, "\n")) != excerptLines {
		t.Errorf("got\n%s", got)
	}
	if got := Excerpt(nil); got != "" {
		t.Errorf("got %q", got)
	}
}

// Messages of kernels that are not Linux. A console ends at a prompt without a newline.
func TestDiagnoseOtherSystems(t *testing.T) {
	for text, want := range map[string]string{
		"[   1.0000] panic: a message of this test\n[   1.0000] cpu0: Begin traceback...\n": "the guest's kernel panicked: " +
			"a message of this test",
		"panic: another message\ncpuid = 0\n":      "the guest's kernel panicked: another message",
		"panic: a third one\nStopped at\nddb{0}> ": "the guest's kernel panicked: a third one",
		"words about panic: nothing\n":             "",
		"timecounter went backwards\n":             "the guest's clock went backwards: timecounter went backwards",
		"[ 1.0] boot device: <unknown>\n[ 1.0] root device: ": "the guest's kernel asks on the console for the root: " +
			"root device:",
		"[ 1.0] root device (default ld0a): ": "the guest's kernel asks on the console for the root: root device " +
			"(default ld0a):",
		"Mounting from ufs:/dev/x failed with error 19.\n\nmountroot> ": "the guest's kernel could not mount the root: " +
			"Mounting from ufs:/dev/x failed with error 19.",
		"Mounting from ufs:/dev/x failed with error 2: unknown file system.\r\n": "the guest's kernel could not " +
			"mount the root: " +
			"Mounting from ufs:/dev/x failed with error 2: unknown file system.",
		"Mounting from ufs:/dev/x failed with error 16; retrying for 3 more seconds\n": "",
		"mountroot> ":                     "the guest's kernel asks on the console for the root: mountroot>",
		"[ 1.0] root device type: x\n":    "",
		"Stopped in pid 0.1\ndb{0}> ":     "the guest's kernel stopped in the debugger: db{0}>",
		"KDB: enter: Break\ndb> ":         "the guest's kernel stopped in the debugger: db>",
		"the db> of something else\n":     "",
		"[ 1.0] kernel boot time: 14ms\n": "",
		"[ 1.0] root on ld0a: unknown device major 0xffff\n[ 1.0] root device: ": "the guest's kernel asks on the " +
			"console for the " +
			"root: root device:",
		"[ 1.0] unknown device major 0xffff\n": "the guest's kernel found no root (name one with root= in " +
			"append): [ 1.0] unknown " +
			"device major 0xffff",
		"[ 1.0] init path (default /sbin/init): ": "the guest's root has no /sbin/init, so its kernel asks for " +
			"one on the console: " +
			"init path (default /sbin/init):",
	} {
		if got := Diagnose([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A guest that waits for somebody at its console will not answer. One that has printed more
// after a question goes on.
func TestAGuestThatWaitsAtItsConsole(t *testing.T) {
	for text, want := range map[string]bool{
		"[ 1.0] root device: ":                                 true,
		"[ 1.0] init path (default /sbin/init): ":              true,
		"panic: x\nStopped at\nddb{0}> ":                       true,
		"panic: x\nrebooting\n":                                false,
		"[ 1.0] root device: ld0a\n[ 1.0] root on ld0a\nhello": false,
		"": false,
	} {
		if got := stuckReason([]byte(text)); (got != "") != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
