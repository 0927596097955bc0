package fio

import (
	"fmt"
	"strings"
	"testing"

	"bakeoff/judge/format"
	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// report is a report with jobs.
func report(jobs ...string) string {
	return `{"fio version": "fio-3.40", "timestamp": 7, "new": 1, "jobs": [` + strings.Join(jobs, ",\n") + `]}`
}

const reading = `"read": {"iops": 10, "bw_bytes": 40960, "total_ios": 10, "runtime": 1000}`

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
// are added up. A job has the options of the report unless it has its own.
func TestClones(t *testing.T) {
	two := `{"jobname": "a", "job options": {"numjobs": "2"}, ` + reading + `}`
	one := `{"jobname": "a", "job options": {"numjobs": "1"}, ` + reading + `}`
	none := `{"jobname": "a", ` + reading + `}`
	for _, c := range []struct{ text, want string }{
		{report(two, two), "a 20"},
		{report(one, one), "a 10, a #2 10"},
		{report(none, none), "a 10, a #2 10"},
		{report(two, two, two, two), "a 20, a #2 20"},
		{global(report(none, none), "2"), "a 20"},
		{global(report(none, none, none), "2"), "a 20, a #2 10"},
		{global(report(one, none, none), "2"), "a numjobs=1 10, a numjobs=2 20"},
		{global(report(none, none, none), "1+2"), "a 30"},
		{strings.Replace(report(none, none), "fio-3.40", "fio-2.1.9", 1), "a 20"},
	} {
		out, err := New().Read("x", []byte(c.text))
		format.Settle(New(), []*format.File{&out})
		var got []string
		for _, r := range out.Records {
			got = append(got, fmt.Sprint(r.Labels[0].Value, " ", r.Series[0].Values[0]))
		}
		if text := strings.Join(got, ", "); err != nil || text != c.want {
			t.Errorf("%s: %s, want %s, %v", c.text, text, c.want, err)
		}
	}
}

// Jobs of one name have the options in their names by which they differ, so their order in the file has no effect.
func TestNamesByOptions(t *testing.T) {
	job := func(options, more string) string {
		return `{"jobname": "a", "job options": {` + options + `}, ` + more + `}`
	}
	k4, k64 := job(`"bs": "4k", "rw": "read"`, reading), job(`"bs": "64k", "rw": "read"`, reading)
	for text, want := range map[string]string{
		report(k4, k64):     "a bs=4k, a bs=64k",
		report(k64, k4):     "a bs=64k, a bs=4k",
		report(k4, k64, k4): "a bs=4k, a bs=64k, a bs=4k #2",
		report(k4):          "a",
		report(k4, job(`"bs": "64k"`, strings.Replace(reading, "read", "write", 1))): "a bs=4k rw=read, a bs=64k",
		report(k4, job(`"bs": "8k", "rw": "read"`, `"error": 5, `+reading)):          "a bs=4k, a bs=8k",
	} {
		out, err := New().Read("x", []byte(text))
		format.Settle(New(), []*format.File{&out})
		var got []string
		for _, r := range out.Records {
			got = append(got, r.Labels[0].Value)
			if l := r.Labels[0]; l.Value != "a" && (l.Plain == nil || l.Plain.Value != "a") {
				t.Errorf("%s: %+v", text, l)
			}
		}
		if names := strings.Join(got, ", "); err != nil || names != want {
			t.Errorf("%s: %s, want %s, %v", text, names, want, err)
		}
	}
}

// A job has one name in all files. Options of which each file has values of its own are not in the names, unless
// nothing else tells the jobs of a file apart.
func TestNamesInAllFiles(t *testing.T) {
	job := func(bs, name string) string {
		return `{"jobname": "a", "job options": {"bs": "` + bs + `", "filename": "` + name + `"}, ` + reading + `}`
	}
	for _, c := range []struct{ a, b, want string }{
		{report(job("4k", "f"), job("64k", "f")), report(job("4k", "f")), "a bs=4k, a bs=64k; a bs=4k"},
		{report(job("4k", "f"), job("64k", "f")), report(job("64k", "f"), job("4k", "f")),
			"a bs=4k, a bs=64k; a bs=64k, a bs=4k"},
		{report(job("4k", "/ext4/0"), job("64k", "/ext4/1")), report(job("4k", "/xfs/0"), job("64k", "/xfs/1")),
			"a bs=4k, a bs=64k; a bs=4k, a bs=64k"},
		{report(job("4k", "/ext4/0"), job("4k", "/ext4/1")), report(job("4k", "/xfs/0"), job("4k", "/xfs/1")),
			"a filename=/ext4/0, a filename=/ext4/1; a filename=/xfs/0, a filename=/xfs/1"},
		{report(job("4k", "f"), job("64k", "f")), report(job("8k", "f")), "a bs=4k, a bs=64k; a bs=8k"},
		{report(job("4k", "f"), job("4k", "f")), report(job("8k", "f")), "a, a #2; a"},
		{report(job("4k", "f")), report(job("8k", "f")), "a; a"},
	} {
		var files []*format.File
		for _, text := range []string{c.a, c.b} {
			out, err := New().Read("x", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, &out)
		}
		format.Settle(New(), files)
		var got []string
		for _, f := range files {
			var names []string
			for _, r := range f.Records {
				names = append(names, r.Labels[0].Value)
			}
			got = append(got, strings.Join(names, ", "))
			if warned := len(f.Warnings) > 0; warned != strings.Contains(got[len(got)-1], "#") {
				t.Errorf("%s: %q", got, f.Warnings)
			}
		}
		if names := strings.Join(got, "; "); names != c.want {
			t.Errorf("%s and %s: %s, want %s", c.a, c.b, names, c.want)
		}
	}
}

// global gives a report an option for all jobs.
func global(report, numjobs string) string {
	return strings.Replace(report, `"jobs"`, `"global options": {"numjobs": "`+numjobs+`"}, "jobs"`, 1)
}

// With unified_rw_reporting=1, fio reports all directions together, as mixed.
func TestUnified(t *testing.T) {
	mixed := `{"jobname": "a", ` + strings.Replace(reading, "read", "mixed", 1) + `}`
	for text, want := range map[string]float64{report(mixed): 10, global(report(mixed, mixed), "2"): 20} {
		out, err := New().Read("x", []byte(text))
		if err != nil || len(out.Records) != 1 || out.Records[0].Failed != 0 ||
			out.Records[0].Series[0].Metric.Name != "mixed-throughput" || out.Records[0].Series[0].Values[0] != want {
			t.Errorf("%s: %+v, %v", text, out, err)
		}
	}
}

// What makes numbers doubtful is reported, and the numbers are used.
func TestDoubtfulNumbers(t *testing.T) {
	for members, want := range map[string]string{
		`"read": {"iops": 10, "bw_bytes": 5, "total_ios": 3, "short_ios": 0, "drop_ios": 0}`: "",
		`"read": {"iops": 10, "bw_bytes": 5, "total_ios": 3, "short_ios": 2}`: "x:1: Operations of job \"a\" (read) that " +
			"moved fewer bytes than asked for: 2.",
		`"read": {"iops": 1, "bw_bytes": 5, "total_ios": 30, "io_bytes": 150, "runtime": 30001}`: "",
		`"read": {"iops": 10, "bw_bytes": 5, "total_ios": 30, "io_bytes": 150, "runtime": 30000}`: "x:1: iops of job \"a\" " +
			"(read) is 10, but the sum divided by the runtime is 1. The file was changed, or fio has an error; bakeoff uses " +
			"iops.",
		`"write": {"iops": 10, "bw_bytes": 5, "total_ios": 3, "drop_ios": 1}`: "x:1: Operations of job \"a\" (write) that " +
			"were dropped: 1.",
		reading + `, "steadystate": {"ss": "iops:1%", "attained": 1}`: "",
		`"read": {"iops": 10, "bw_bytes": NaN, "bw": 4, "total_ios": 3}`: "x:1: bw_bytes of job \"a\" (read) is not a " +
			"number; bakeoff uses bw, which is in whole KiB/s.",
		reading + `, "write": {"iops": 0, "bw_bytes": NaN, "bw": 0, "total_ios": 0, "lat_ns": {"mean": -nan}}`: "",
		reading + `, "steadystate": {"ss": "iops:1%", "attained": 0}`: "x:1: Job \"a\" did not reach its steady state " +
			"(iops:1%), so its numbers do not describe that state.",
	} {
		out, err := New().Read("x", []byte(report(`{"jobname": "a", `+members+`}`)))
		if err != nil || len(out.Records) != 1 || out.Records[0].Failed != 0 || strings.Join(out.Warnings, "\n") != want {
			t.Errorf("%s: %q, %v", members, out.Warnings, err)
		}
	}
}

// What a version does not write is missing, not zero.
func TestMissing(t *testing.T) {
	out, err := New().Read("x", []byte(report(`{"jobname": "a", "read": {"iops": 10, "total_ios": 3}}`)))
	if err != nil || len(out.Records[0].Series) != 1 ||
		out.Warnings[0] != `x:1: read of job "a" has no bandwidth, neither bw_bytes nor bw; fio-3.40 (left out)` {
		t.Errorf("%+v, %v", out, err)
	}
	// Only what has no number is left out.
	for members, want := range map[string]string{
		`"read": {"iops": NaN, "bw_bytes": 5, "total_ios": 3, "lat_ns": {"mean": 7}}, ` +
			`"write": {"iops": 10, "bw_bytes": 5}`: "read-bandwidth read-latency-mean write-throughput write-bandwidth",
		`"read": {"iops": NaN, "bw_bytes": 0, "total_ios": 3}, "write": {"iops": 10, "bw_bytes": 5}`: "write-throughput " +
			"write-bandwidth",
		`"read": {"iops": 10, "bw_bytes": NaN, "total_ios": 3}, "write": {"iops": 10, "bw_bytes": 5}`: "read-throughput " +
			"write-throughput write-bandwidth",
	} {
		out, err := New().Read("x", []byte(report(`{"jobname": "a", `+members+`}`)))
		var got []string
		for _, r := range out.Records {
			for _, s := range r.Series {
				got = append(got, s.Metric.Name)
			}
		}
		if names := strings.Join(got, " "); err != nil || names != want || out.LeftOut != 1 {
			t.Errorf("%s: %s, want %s, %q, %v", members, names, want, out.Warnings, err)
		}
	}
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "no iops", Text: report(`{"jobname": "a", `+reading+`}`, `{"jobname": "b", "read": {"total_ios": 3}}`),
			Want: `x:2: read of job "b" has no iops, or no number there; fio-3.40`},
		{Name: "negative", Text: report(`{"jobname": "a", `+reading+`}`,
			`{"jobname": "b", "read": {"iops": -nan, "bw": -3}}`),
			Want: `x:2: job "b" has a negative value`},
		{Name: "no number in a percentile", Text: report(`{"jobname": "a", "read": {"iops": 10, "bw_bytes": 5, ` +
			`"total_ios": 3, "clat_ns": {"percentile": {"50.000000": 7, "99.000000": nan}}}}`),
			Want: `x:1: read-latency-p99 of job "a" is not a number`},
		{Name: "no number in a percentile of lat_percentiles", Text: report(`{"jobname": "a", "read": {"iops": 10, ` +
			`"bw_bytes": 5, "total_ios": 3, "clat_ns": {"percentile": {"99.000000": 7}}, ` +
			`"lat_ns": {"mean": 7, "percentile": {"99.000000": nan}}}}`),
			Want: `x:1: read-total-latency-p99 of job "a" is not a number`},
		{Name: "no number in a mean", Text: report(`{"jobname": "a", "read": {"iops": 10, "bw_bytes": 5, ` +
			`"total_ios": 3, "lat_ns": {"mean": nan}}}`),
			Want: `x:1: read-latency-mean of job "a" is not a number`},
		{Name: "another form", Text: report(`{"jobname": "a", `+reading+`}`, `{"jobname": "b", "read": 7}`),
			Want: "x:2: read is a JSON number instead of an object"},
		{Name: "one of two processes", Text: report(`{"jobname": "z", `+reading+`}`,
			`{"jobname": "a", "job options": {"numjobs": "2"}, `+reading+`}`,
			`{"jobname": "a", "job options": {"numjobs": "2"}, "read": {"iops": "2,000"}}`),
			Want: "x:3: read.iops is a JSON string instead of a number"},
		{Name: "two of three processes", Text: report(`{"jobname": "z", `+reading+`}`,
			`{"jobname": "a", "job options": {"numjobs": "3"}, `+reading+`}`,
			`{"jobname": "a", "job options": {"numjobs": "3"}, `+reading+`}`),
			Want: `x:2: job "a" has 2 of its 3 processes, so its sums are wrong`},
	})
	// Without a lost process, one result of several processes is their sum (group_reporting).
	for lost, want := range map[string]int{
		`"jobname": "b", "write": {"iops": 5, "bw": 3, "total_ios": 9}`:          3,
		`"jobname": "b", "read": {"iops": "x"}`:                                  2,
		`"jobname": "b", "read": {"iops": 9, "bw": 3, "lat_ns": {"mean": nan}}`:  3,
		`"jobname": "a", "read": {"iops": "x"}, "job options": {"numjobs": "2"}`: 1,
		`"jobname": "a", "read": {"iops": -1}, "job options": {"numjobs": "2"}`:  1,
		`"read": {"iops": 9, "bw": 3, "total_ios": 9}`:                           1,
	} {
		out, err := New().Read("x", []byte(report(`{"jobname": "z", `+reading+`}`,
			`{"jobname": "a", "job options": {"numjobs": "2"}, `+reading+`}`, `{`+lost+`}`)))
		if records := len(out.Records); err != nil || records != want {
			t.Errorf("%s: %d records, %q, %v", lost, records, out.Warnings, err)
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
