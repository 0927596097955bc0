package command

import (
	"bakeoff/base/param"
	"bakeoff/measure/workload"
)

var _ workload.TimeReporter = Workload{}

// ReportedTime returns how long the command says that it measured, where the
// parameter seconds finds it on standard output or else on standard error.
func (Workload) ReportedTime(raw workload.Raw, p param.Values) (r workload.ReportedTime, ok bool) {
	if p.Text("seconds") == "" {
		return r, false
	}
	res, err := raw.Exec(workload.ExecBlob)
	if err != nil {
		return r, false
	}
	v, err := extracted(p.Text("seconds"), res)
	if err != nil {
		res.Stdout = res.Stderr
		if v, err = extracted(p.Text("seconds"), res); err != nil {
			return r, false
		}
	}
	return workload.ReportedTime{Seconds: v, Elapsed: float64(res.ElapsedNS) / 1e9, CPUSeconds: res.Usage.CPUSeconds()},
		true
}
