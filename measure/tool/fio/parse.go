package fio

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/tool"
)

// report is the part of fio's JSON that is read. Versions add fields, so
// unknown ones are ignored.
type report struct {
	Version string `json:"fio version"`
	Jobs    []job  `json:"jobs"`
}

type job struct {
	Name    string            `json:"jobname"`
	Error   *int              `json:"error"`
	Options map[string]string `json:"job options"`
	Read    side              `json:"read"`
	Write   side              `json:"write"`
	Sync    struct {
		Latency *latency `json:"lat_ns"`
	} `json:"sync"`
	Errors int64 `json:"total_err"` // only with continue_on_error
}

// side is one direction.
type side struct {
	Bytes     *float64 `json:"io_bytes"`
	RuntimeMS *float64 `json:"runtime"` // final fsync included
	Total     *float64 `json:"total_ios"`
	Short     *int64   `json:"short_ios"`
	Dropped   *int64   `json:"drop_ios"`
	Latency   *latency `json:"clat_ns"`
}

type latency struct {
	N           *float64           `json:"N"`
	Percentiles map[string]float64 `json:"percentile"` // "99.000000" → ns
}

func (f fio) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	text, ok := out.Files[output]
	if !ok {
		return r, fmt.Errorf("%s is missing", output)
	}
	j, err := readReport(text)
	if err != nil {
		return r, fmt.Errorf("%s: %w", output, err)
	}
	if *j.Error != 0 {
		return r, fault.New(fault.Subject, "fio's job failed with error %d", *j.Error)
	}
	if err := checkEcho(j.Options, out.Facts, p); err != nil {
		return r, err
	}
	r.Work = *j.Read.Total + *j.Write.Total
	took := max(*j.Read.RuntimeMS, *j.Write.RuntimeMS) / 1e3
	if !(took > 0) || !(r.Work > 0) {
		return r, fault.New(fault.Subject, "nothing was measured: %g operations in %g s", r.Work, took)
	}
	if err := r.Lasted(took, p.Duration("time"), out.Elapsed); err != nil {
		return r, err
	}
	r.Count("short", *j.Read.Short+*j.Write.Short)
	r.Count("dropped", *j.Read.Dropped+*j.Write.Dropped)
	r.Count("failed", j.Errors)
	d := f.Doc()
	r.Add(d, "throughput", r.Work/took)
	r.Add(d, "bandwidth", (*j.Read.Bytes+*j.Write.Bytes)/took)
	for _, s := range []struct {
		name string
		*latency
	}{{"read", j.Read.Latency}, {"write", j.Write.Latency}, {"sync", j.Sync.Latency}} {
		// With end_fsync only, "sync" has N = 0: unknown, not 0 s.
		if s.latency == nil || *s.N == 0 {
			continue
		}
		for _, q := range quantiles {
			r.AddKnown(d, s.name+"-latency-"+q.name, s.percentile(q.percent)/1e9)
		}
	}
	return r, nil
}

// percentile returns a percentile in nanoseconds, whatever the number of digits in its
// name; 0 if it is missing.
func (l latency) percentile(percent string) float64 {
	want, _ := strconv.ParseFloat(percent, 64)
	for name, ns := range l.Percentiles {
		if v, err := strconv.ParseFloat(name, 64); err == nil && math.Abs(v-want) < 1e-6 {
			return ns
		}
	}
	return 0
}

// checkEcho checks that fio ran with the requested options. It repeats them as they
// were given.
func checkEcho(got, facts map[string]string, p param.Values) error {
	cmd, err := fio{}.Command(p, tool.Place{Probed: strings.HasPrefix(facts["direct"], "true")})
	if err != nil {
		return fault.Wrap(fault.Subject, "", err)
	}
	for _, arg := range cmd.Argv[1:] {
		name, want, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		have, ok := got[name]
		switch {
		case slices.Contains(unechoed, name) && !ok, name == "filename":
		case name == "direct" && facts["direct"] == "" && p.Text("direct") == directAuto:
		default:
			if err := tool.Differs(name, have, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// unechoed are options of the whole program, which fio does not repeat, and
// invalidate, which fio was not given in early runs.
var unechoed = []string{"output", "output-format", "invalidate"}

// readReport decodes the one job of a report.
func readReport(text []byte) (job, error) {
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return job{}, fmt.Errorf("not JSON of fio: %w", err)
	}
	switch {
	case !strings.HasPrefix(r.Version, "fio-"):
		return job{}, fmt.Errorf("the JSON is from %.40q, not from fio", r.Version)
	case len(r.Jobs) != 1:
		return job{}, fmt.Errorf("the report has %d jobs instead of one", len(r.Jobs))
	}
	j := r.Jobs[0]
	if j.Error == nil {
		return job{}, fmt.Errorf("the job in the report of %s lacks the field error", r.Version)
	}
	if *j.Error != 0 {
		return j, nil // it measured nothing
	}
	if s := j.Sync.Latency; s != nil && s.N == nil {
		return job{}, fmt.Errorf("the section sync in the report of %s lacks lat_ns.N", r.Version)
	}
	for name, s := range map[string]side{"read": j.Read, "write": j.Write} {
		if missing := s.missing(); missing != "" {
			return job{}, fmt.Errorf("the section %s in the report of %s lacks %s", name, r.Version, missing)
		}
		if *s.Bytes < 0 || *s.Total < 0 || *s.RuntimeMS < 0 || *s.Short < 0 || *s.Dropped < 0 || j.Errors < 0 {
			return job{}, errors.New("negative count")
		}
	}
	return j, nil
}

// missing names a member that is not there; "" if all are. Versions before 3 have no
// clat_ns, and their io_bytes are KiB.
func (s side) missing() string {
	switch {
	case s.Bytes == nil:
		return "io_bytes"
	case s.RuntimeMS == nil:
		return "runtime"
	case s.Total == nil:
		return "total_ios"
	case s.Short == nil:
		return "short_ios"
	case s.Dropped == nil:
		return "drop_ios"
	case s.Latency == nil || s.Latency.N == nil:
		return "clat_ns.N"
	}
	return ""
}
