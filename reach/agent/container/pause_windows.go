package container

import (
	"fmt"
	"io"

	"bakeoff/reach/wire"
)

// Pause fails: Windows has no environments whose first process it could be.
func Pause(_ []string, stderr io.Writer) int {
	fmt.Fprintln(stderr, "bakeoff-agent: pause: not supported on Windows")
	return wire.ExitUnsupported
}
