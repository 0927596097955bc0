package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"bakeoff/base/fault"
)

// Confirm asks a question on the terminal; any answer but yes is an error.
func (s *Streams) Confirm(question string) error {
	if in, ok := s.In.(*os.File); !ok || !s.Terminal(in) {
		return fault.WithFix(fault.New(fault.Invalid, "there is no terminal to ask: nothing was removed"),
			"add --yes or --dry-run")
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(s.In).ReadString('\n') // its end is no yes
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fault.New(fault.Invalid, "nothing was removed")
}
