package siege

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/tooltest"
)

const good = `{"transactions":100,"elapsed_time":1.00,"response_time":0.00,"longest_transaction":0.02,` +
	`"successful_transactions":100,"failed_transactions":0}`

func parse(t *testing.T, from, to string) (tool.Result, error) {
	t.Helper()
	if from != "" && !strings.Contains(good, from) {
		t.Fatalf("%q is not in the output", from)
	}
	p := param.Defaults(New().Doc().Params)
	p["time"] = "1s"
	return New().Parse(tool.Output{Stdout: []byte("a note\n" + strings.Replace(good, from, to, 1))}, p)
}

// Error pages are "transactions" for siege and no "failures".
func TestErrorPagesFail(t *testing.T) {
	r, err := parse(t, `"successful_transactions":100`, `"successful_transactions":75`)
	if err != nil || r.Errors["status"] != 25 || r.Work != 75 {
		t.Errorf("a quarter of error pages: %+v, %v", r, err)
	}
	if r, err = parse(t, `"failed_transactions":0`, `"failed_transactions":7`); err != nil || r.Errors["failed"] != 7 {
		t.Errorf("broken connections: %+v, %v", r, err)
	}
	if r, err = parse(t, `"elapsed_time":1.00`, `"elapsed_time":0.18`); err != nil || r.OwnTime == "" {
		t.Errorf("a short test without a failure: %q, %v", r.OwnTime, err)
	}
	if _, err = parse(t, `"elapsed_time":1.00,"response_time":0.00,"longest_transaction":0.02,`+
		`"successful_transactions":100,"failed_transactions":0`, `"elapsed_time":0.18,"response_time":0.00,`+
		`"longest_transaction":0.02,"successful_transactions":100,"failed_transactions":9`); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "gave up") {
		t.Errorf("it gave up: %v", err)
	}
}

// Two decimals: what is below is absent, and not zero.
func TestZeroIsNotKnown(t *testing.T) {
	r, err := parse(t, "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Values {
		if v.Metric == "response-mean" {
			t.Errorf("a mean of 0.00 s became %g", v.Value)
		}
	}
}

// Nothing of the person who runs it, and nothing in that person's home.
func TestConfigurationOfItsOwn(t *testing.T) {
	p := param.Defaults(New().Doc().Params)
	cmd, err := New().Command(p, tooltest.At())
	if err != nil || cmd.Argv[1] != "--rc=/scratch/dir/siegerc" || cmd.Files["siegerc"] == "" {
		t.Fatalf("%q, %v", cmd, err)
	}
	for _, want := range []string{"parser = false", "logging = false", "connection = keep-alive", "timeout = 5\n"} {
		if !strings.Contains(cmd.Files["siegerc"], want) {
			t.Errorf("%q is not in its configuration", want)
		}
	}
	if !bytes.Contains([]byte(strings.Join(cmd.Argv, " ")), []byte("--no-parser --benchmark")) {
		t.Errorf("%q", cmd.Argv)
	}
	if got := cmd.Argv[len(cmd.Argv)-2]; got != "--time=6S" {
		t.Errorf("%s: the first of its seconds may be short", got)
	}
	p["time"] = "0s"
	if _, err := New().Command(p, tooltest.At()); !fault.Is(err, fault.Invalid) {
		t.Errorf("no time: %v", err)
	}
}

// Pauses and several pages are what was asked for; no pauses is a benchmark.
func TestPausesAndPages(t *testing.T) {
	p := param.Defaults(New().Doc().Params)
	one, err := New().Command(p, tool.Place{Dir: "/d", URL: "http://a/"})
	if err != nil || !slices.Contains(one.Argv, "--benchmark") || one.Argv[len(one.Argv)-1] != "http://a/" {
		t.Errorf("one page: %v, %v", one, err)
	}
	p["delay"] = "1500ms"
	many, err := New().Command(p, tool.Place{Dir: "/d", URLs: []string{"http://a/1", "http://a/2"}})
	if err != nil || slices.Contains(many.Argv, "--benchmark") || !slices.Contains(many.Argv, "--delay=1.5") ||
		!slices.Contains(many.Argv, "--file=/d/urls") || many.Files["urls"] != "http://a/1\nhttp://a/2\n" {
		t.Errorf("two pages with pauses: %v, %v", many, err)
	}
}
