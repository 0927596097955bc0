package main

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
	exitDone     = 0
	exitFailed   = 1 // the lab or a verification failed
	exitInvalid  = 2 // the input is wrong
	exitAsked    = 3 // something asked for with --fail-on came true
	exitMissing  = 4 // done, with missing cells
	exitNotFound = 5
	exitSignal   = 128 // and the number of the signal that ended it, as shells count
)

// exitMeanings is what help and manual say of them.
var exitMeanings = []struct {
	code    int
	meaning string
}{
	{exitDone, "done"},
	{exitFailed, "the lab or a verification failed"},
	{exitInvalid, "the input is wrong"},
	{exitAsked, "something asked for with --fail-on came true"},
	{exitMissing, "done, with missing cells"},
	{exitNotFound, "something named does not exist"},
	{exitSignal + int(syscall.SIGINT), "interrupted by Ctrl-C: what there is was reported, and run --resume goes on"},
	{exitSignal + int(syscall.SIGTERM), "the same by SIGTERM"},
	{exitSignal + int(syscall.SIGHUP), "the same because the terminal went away"},
	{exitSignal + int(syscall.SIGPIPE), "the same because nobody reads its output any longer"},
}

// printExitCodes writes them behind the help of c.
func printExitCodes(c *cobra.Command) {
	out := c.OutOrStdout()
	fmt.Fprintln(out, "\nExit codes:")
	for _, e := range exitMeanings {
		fmt.Fprintf(out, "  %-4d %s\n", e.code, e.meaning)
	}
}

// verdict is an end that is no failure of the command but has a code of its
// own. Its text, if any, has been or will be printed like an error's.
type verdict struct {
	code int
	text string
}

func (v verdict) Error() string { return v.text }

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal syscall.Signal }

func (i interruption) Error() string { return "ended by the signal " + i.signal.String() }

// interrupted is how a command ends whose context a signal ended, with how to
// go on; nil where none did.
func interrupted(ctx context.Context, how string) error {
	var i interruption
	if !errors.As(context.Cause(ctx), &i) {
		return nil
	}
	return verdict{exitSignal + int(i.signal), "interrupted; " + how}
}

// exitCode is the only place that turns errors into exit codes.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	var v verdict
	if errors.As(err, &v) {
		return v.code
	}
	switch fault.Of(err) {
	case fault.Invalid:
		return exitInvalid
	case fault.NotFound:
		return exitNotFound
	}
	return exitFailed
}

// finish tells a person how the command ended and returns its exit code.
func (a *app) finish(err error) int {
	if err == nil {
		return exitDone
	}
	for _, message := range messages(err) {
		for line := range strings.SplitSeq(message, "\n") {
			line = safetext.Line(line)
			if !place.MatchString(line) {
				line = a.style(a.stderr).paint(red, "bakeoff:") + " " + line
			}
			fmt.Fprintln(a.stderr, line)
		}
	}
	return exitCode(err)
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
