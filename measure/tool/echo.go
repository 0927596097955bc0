package tool

import (
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/printed"
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
func Echoes(t printed.Text, want map[string]string, anyCase bool) error {
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
// program that counts CPU time reports less than a test lasted wherever it had to
// wait for a CPU, and a rate that never occurred.
func Lasted(seconds float64, asked, elapsed time.Duration) error {
	switch {
	case seconds < 0.95*asked.Seconds():
		return fault.New(fault.Subject, "the program reports %.3g s instead of the %v that the test lasts: "+
			"it counts CPU time, or it ended early", seconds, asked)
	case elapsed > 0 && seconds > 1.02*elapsed.Seconds()+0.05:
		return fault.New(fault.Subject, "the program reports %.3g s for the test, but the whole program took %v", seconds,
			elapsed.Round(time.Millisecond))
	}
	return nil
}
