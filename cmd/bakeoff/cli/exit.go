package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
)

// The exit codes: promises to scripts.
const (
	ExitDone     = 0
	ExitFailed   = 1 // the lab or a verification failed
	ExitInvalid  = 2 // the input is wrong
	ExitAsked    = 3 // a condition of --fail-on is true
	ExitFound    = 3 // bakeoff install lint found something
	ExitFails    = 3 // bakeoff replicate: a verdict does not hold here
	ExitAbsent   = 3 // bakeoff image: there is no such image or source, as imgadm says it
	ExitMissing  = 4 // done, with missing cells
	ExitNotFound = 5
	// a condition of --fail-on with a tolerance is neither true nor false, or a replication
	// is inconclusive
	ExitUndecided = 6
	ExitSignal    = 128 // and the number of the signal that ended it, as shells count
)

// ExitMeaning is what an exit code means, for all commands, or for one command only.
type ExitMeaning struct {
	Code    int
	Command string // the command below bakeoff; "" is every command, and failOn every one with this flag
	Meaning string
}

const failOn = "--fail-on"

var exitMeanings = []ExitMeaning{
	{ExitDone, "", "done"},
	{ExitFailed, "", "bakeoff itself failed (not the measured program), or a run failed verification"},
	{ExitInvalid, "", "the input is invalid"},
	{ExitAsked, failOn, "a condition of --fail-on is true"},
	{ExitAbsent, "image", "the named image or source does not exist"},
	{ExitFound, "install lint", "lint found something"},
	{ExitFound, "install verify", "the system differs from its plan"},
	{ExitFails, "replicate", "a verdict does not hold on this machine"},
	{ExitMissing, "", "done, with missing cells"},
	{ExitNotFound, "", "a file, run, driver or workload does not exist"},
	{ExitUndecided, failOn, "a condition of --fail-on is not decided (bakeoff run --resume continues a run)"},
	{ExitUndecided, "replicate", "an answer is inconclusive, and all other verdicts hold"},
	{ExitSignal + int(syscall.SIGINT), "",
		"interrupted by Ctrl-C (bakeoff run --resume continues a run)"},
	{ExitSignal + int(syscall.SIGTERM), "", "interrupted by SIGTERM"},
	{ExitSignal + int(syscall.SIGHUP), "", "interrupted because the terminal was closed (SIGHUP)"},
	{ExitSignal + int(syscall.SIGPIPE), "", "interrupted because the output pipe was closed (SIGPIPE)"},
}

// ExitMeanings returns the exit codes that c can end with, each once. The root command has those of all
// commands.
func ExitMeanings(c *cobra.Command) (out []ExitMeaning) {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	for _, e := range exitMeanings {
		switch {
		case e.Command == "" || e.Command == failOn && (!c.HasParent() || c.Flags().Lookup(failOn[2:]) != nil):
		case !c.HasParent():
			e.Meaning = "bakeoff " + e.Command + ": " + e.Meaning
		case path != e.Command && !strings.HasPrefix(path, e.Command+" "):
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].Code == e.Code {
			out[last].Meaning += "; " + e.Meaning
			continue
		}
		out = append(out, e)
	}
	return out
}

// PrintExitCodes writes them after the help of c.
func PrintExitCodes(c *cobra.Command) {
	out := c.OutOrStdout()
	fmt.Fprintln(out, "\nExit codes:")
	for _, e := range ExitMeanings(c) {
		fmt.Fprintf(out, "  %-4d %s\n", e.Code, e.Meaning)
	}
}

// Exit is an end with its own exit code that is not an error of the command.
// Finish prints Text, if there is any, like that of an error.
type Exit struct {
	Code int
	Text string
}

func (e Exit) Error() string { return e.Text }

// interruption is the cause of a context that a signal canceled.
type interruption struct{ signal syscall.Signal }

func (i interruption) Error() string { return "interrupted by signal " + i.signal.String() }

// Interrupted returns the end of a command whose context a signal canceled, with
// what to do next; nil where no signal did.
func Interrupted(ctx context.Context, how string) error {
	var i interruption
	if !errors.As(context.Cause(ctx), &i) {
		return nil
	}
	return Exit{ExitSignal + int(i.signal), "interrupted; " + how}
}

// ExitCode returns the exit code of an error. It is the only place that does.
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
		err = o.joinWriteError(err)
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

// place matches a line that begins with a place in a file, so that editors can
// jump to it.
var place = lazy.Compile(`^[^\s:]+:\d+(:\d+)?: `)

// messages returns one message for each error that was joined into err.
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
