package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// The exit codes: promises to scripts.
const (
	ExitDone     = 0
	ExitFailed   = 1 // the lab or a verification failed
	ExitInvalid  = 2 // the input is wrong
	ExitAsked    = 3 // something asked for with --fail-on came true
	ExitMissing  = 4 // done, with missing cells
	ExitNotFound = 5
	ExitSignal   = 128 // and the number of the signal that ended it, as shells count
)

// ExitMeanings are the exit codes as help and manual explain them.
var ExitMeanings = []struct {
	Code    int
	Meaning string
}{
	{ExitDone, "done"},
	{ExitFailed, "the lab or a verification failed"},
	{ExitInvalid, "the input is wrong"},
	{ExitAsked, "something asked for with --fail-on came true"},
	{ExitMissing, "done, with missing cells"},
	{ExitNotFound, "something named does not exist"},
	{ExitSignal + int(syscall.SIGINT), "interrupted by Ctrl-C: what there is was reported, and run --resume goes on"},
	{ExitSignal + int(syscall.SIGTERM), "the same by SIGTERM"},
	{ExitSignal + int(syscall.SIGHUP), "the same because the terminal went away"},
	{ExitSignal + int(syscall.SIGPIPE), "the same because nobody reads its output any longer"},
}

// PrintExitCodes writes them after the help of c.
func PrintExitCodes(c *cobra.Command) {
	out := c.OutOrStdout()
	fmt.Fprintln(out, "\nExit codes:")
	for _, e := range ExitMeanings {
		fmt.Fprintf(out, "  %-4d %s\n", e.Code, e.Meaning)
	}
}

// Exit is an end that is no failure of the command but has a code of its own.
// Finish prints Text, if there is any, like that of an error.
type Exit struct {
	Code int
	Text string
}

func (e Exit) Error() string { return e.Text }

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal syscall.Signal }

func (i interruption) Error() string { return "ended by the signal " + i.signal.String() }

// Interrupted is how a command ends whose context a signal ended, with how to
// go on; nil where none did.
func Interrupted(ctx context.Context, how string) error {
	var i interruption
	if !errors.As(context.Cause(ctx), &i) {
		return nil
	}
	return Exit{ExitSignal + int(i.signal), "interrupted; " + how}
}

// ExitCode is the only place that turns errors into exit codes.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	var e Exit
	if errors.As(err, &e) {
		return e.Code
	}
	switch fault.Of(err) {
	case fault.Invalid:
		return ExitInvalid
	case fault.NotFound:
		return ExitNotFound
	}
	return ExitFailed
}

// Finish reports err, and a write to standard output that failed, on standard
// error, and returns the exit code of the program.
func (s *Streams) Finish(err error) int {
	if o, ok := s.Out.(*output); ok {
		err = o.joined(err)
	}
	if err == nil {
		return ExitDone
	}
	for _, message := range messages(err) {
		for line := range strings.SplitSeq(message, "\n") {
			line = safetext.Line(line)
			if !place.MatchString(line) {
				line = s.Style(s.Err).Paint(Red, "bakeoff:") + " " + line
			}
			fmt.Fprintln(s.Err, line)
		}
	}
	return ExitCode(err)
}

// place is where in a file something is: such a line begins with it, so that
// editors can go there.
var place = regexp.MustCompile(`^[^\s:]+:\d+(:\d+)?: `)

// messages returns one message for each error that was joined into err, so
// that all that is wrong is said at once.
func messages(err error) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []string
		for _, e := range joined.Unwrap() {
			out = append(out, messages(e)...)
		}
		return out
	}
	if text := err.Error(); text != "" {
		return []string{text}
	}
	return nil
}
