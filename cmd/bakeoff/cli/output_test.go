package cli

import (
	"errors"
	"io"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// A failed write is reported once, whether or not the command noticed it.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full := errors.New("no space left on device")
	o := &output{w: failing{full}}
	if _, err := io.WriteString(o, "a table"); !errors.Is(err, full) {
		t.Fatalf("Write: %v", err)
	}
	unnoticed := o.joinWriteError(nil)
	if ExitCode(unnoticed) != ExitFailed || !strings.Contains(unnoticed.Error(), "standard output") {
		t.Errorf("an unnoticed failure: %v", unnoticed)
	}
	noticed := fault.Wrap(fault.Lab, "export", full)
	if got := o.joinWriteError(noticed); got != noticed {
		t.Errorf("a failure that was noticed: %v", got)
	}
	if err := (&output{w: io.Discard}).joinWriteError(nil); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
