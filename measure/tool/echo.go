package tool

import (
	"fmt"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
)

// Differs is the error of a program that ran with another value of an option
// than it was asked for; nil if got is want.
func Differs(option, got, want string) error {
	if got == want {
		return nil
	}
	if got == "" {
		got = "no value"
	}
	return fault.New(fault.Subject, "the program ran with %s %.40q instead of %s", option, got, want)
}

// Echoes returns the error of Differs for the first line of t that does not have
// what a program was asked for; want is by label, such as "threads:".
func Echoes(t labeled.Text, want map[string]string, anyCase bool) error {
	for label, w := range want {
		got, err := t.Line(label)
		if err != nil {
			return err
		}
		if anyCase {
			got, w = strings.ToLower(got), strings.ToLower(w)
		}
		if err := Differs(strings.TrimSuffix(label, ":"), got, w); err != nil {
			return err
		}
	}
	return nil
}

// Lasted checks the length of a test that a program reports, in seconds, against
// the length that it was asked for and the wall time of the whole program. A
// program that ended before that length failed. Any other contradiction is noted in
// OwnTime, because a busy machine that makes the program wait causes it too.
func (r *Result) Lasted(seconds float64, asked, elapsed time.Duration) error {
	switch {
	case seconds < 0.95*asked.Seconds() && elapsed > 0 && elapsed.Seconds() < 0.95*asked.Seconds():
		return fault.New(fault.Subject, "the program reports a test of %.3g s instead of %v, and ended early, "+
			"after %v", seconds, asked, elapsed.Round(time.Millisecond))
	case seconds < 0.95*asked.Seconds():
		r.OwnTime = fmt.Sprintf("the program reports %.3g s instead of the %v that the test lasts, although it ran for %v: "+
			"it counts CPU time, or it had to wait for a CPU before it started its clock", seconds, asked,
			elapsed.Round(time.Millisecond))
	case elapsed > 0 && seconds > 1.02*elapsed.Seconds()+0.05:
		r.OwnTime = fmt.Sprintf("the program reports %.3g s for the test, but the whole program took %v: its clock was set, "+
			"or runs fast", seconds, elapsed.Round(time.Millisecond))
	}
	return nil
}
