package ab

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/tooltest"
)

func with(set param.Values) param.Values { return tooltest.With(New(), set) }

// said is what ab prints of so many requests in 1 s.
func said(complete, failed, non2xx string) tool.Output {
	text := "Time taken for tests:   1.000 seconds\nComplete requests:      " + complete + "\nFailed requests:        " +
		failed + "\n"
	if non2xx != "" {
		text += "Non-2xx responses:      " + non2xx + "\n"
	}
	return tool.Output{Stdout: []byte(text),
		Files: map[string][]byte{percentiles: []byte("Percentage served,Time in ms\n50,1.5\n90,2.5\n99,4\n")}}
}

// ab counts an error page as a complete request. The parser does not count it as served.
func TestErrorsAreNoRequests(t *testing.T) {
	p := with(param.Values{"time": "1s"})
	r, err := New().Parse(said("1000", "3", "250"), p)
	if err != nil || r.Work != 747 || r.Values[0].Value != 747 || r.Errors["status"] != 250 ||
		r.Errors["failed"] != 3 {
		t.Errorf("a quarter of errors: %+v, %v", r, err)
	}
	if _, err := New().Parse(said("1000", "0", "1000"), p); !fault.Is(err, fault.Subject) {
		t.Errorf("errors alone: %v", err)
	}
}

// A test that ended early, at its number of requests, has another length than it was asked for.
func TestShortTestIsGated(t *testing.T) {
	if r, err := New().Parse(said("1000", "0", ""), with(nil)); err != nil ||
		!strings.Contains(r.OwnTime, "1 s instead of") {
		t.Errorf("1 s of 5: %+v, %v", r, err)
	}
}

func TestArgumentsArePinned(t *testing.T) {
	cmd, err := New().Command(with(param.Values{"time": "1500ms", "varying": "true"}), tooltest.At())
	want := strings.Fields(
		"ab -q -r -t 2 -n 800000 -c 50 -s 5 -e percentiles.csv -k -l http://198.18.0.2:8080/index.html",
	)
	if err != nil || !slices.Equal(cmd.Argv, want) {
		t.Errorf("%q, %v", cmd, err)
	}
	if _, err := New().Command(with(param.Values{"time": "0s"}), tooltest.At()); !fault.Is(err, fault.Invalid) {
		t.Errorf("no time: %v", err)
	}
}
