package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"bakeoff/base/fault"
)

// Confirm asks on the terminal whether to remove something; any answer but yes is an error.
func (s *Streams) Confirm(question string) error { return s.Ask(question, "nothing was removed") }

// Ask asks a question on the terminal. Any answer but yes is an error that says what did
// not happen: undone.
func (s *Streams) Ask(question, undone string) error {
	if in, ok := s.In.(*os.File); !ok || !s.Terminal(in) {
		return fault.WithFix(fault.New(fault.Invalid, "bakeoff cannot ask, because standard input is not a terminal: "+
			"%s", undone),
			"add --yes or --dry-run")
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(s.In).ReadString('\n') // the end of the input does not mean yes
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fault.New(fault.Invalid, "%s", undone)
}
