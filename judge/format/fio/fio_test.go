package fio

import (
	"strings"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// report is a report with jobs.
func report(jobs ...string) string {
	return `{"fio version": "fio-3.40", "timestamp": 7, "new": 1, "jobs": [` + strings.Join(jobs, ",\n") + `]}`
}

const reading = `"read": {"iops": 10, "bw_bytes": 40960, "total_ios": 100, "runtime": 1000}`

// Newer versions say when a job started, which decides what ran at the same time.
func TestStart(t *testing.T) {
	for want, start := range map[int]string{0: "1500", 1: "2000"} {
		out, err := New().Read("x", []byte(report(`{"jobname": "a", "groupid": 0, "job_start": 1000, `+reading+`}`,
			`{"jobname": "b", "groupid": 1, "job_start": `+start+`, `+reading+`}`)))
		if err != nil || len(out.Records) != 2 || out.Records[1].Turn != want {
			t.Errorf("a start at %s: %+v, %v", start, out.Records, err)
		}
	}
}

// The same name in another job is another job: only processes of one job with numjobs
// are added up.
func TestClones(t *testing.T) {
	two := `{"jobname": "a", "job options": {"numjobs": "2"}, ` + reading + `}`
	one := `{"jobname": "a", ` + reading + `}`
	for text, want := range map[string]float64{report(two, two): 20, report(one, one): 10} {
		out, err := New().Read("x", []byte(text))
		if err != nil || out.Records[0].Series[0].Values[0] != want || (len(out.Records) == 1) != (want == 20) {
			t.Errorf("%s: %+v, %v", text, out.Records, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "another program", Text: `{"jobs": [{"jobname": "a", ` + reading + `}]}`,
			Want: `x:1: the file has no "fio version"`},
		{Name: "no jobs", Text: `{"fio version": "fio-3.40", "jobs": []}`, Want: "x:1: the file has no jobs"},
		{Name: "no name", Text: "note: x\n" + report("\n{"+reading+"}"), Want: "x:3: the job has no jobname"},
		{Name: "negative", Text: report(`{"jobname": "a", "write": {"iops": -1}}`),
			Want: `x:1: job "a" has a negative value`},
		{Name: "a string", Text: report("{\"jobname\": \"a\",\n\"read\": {\"iops\": \"many\"}}"),
			Want: "x:2: read.iops is a JSON string instead of a number"},
		{Name: "text", Text: "fio: unrecognized option '--nosuch'\n", Want: "x:1: this is not JSON"},
	})
}
