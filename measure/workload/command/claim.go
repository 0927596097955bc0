package command

import (
	"bakeoff/base/param"
	"bakeoff/measure/workload"
)

var _ workload.Claimant = command{}

// ClaimOf returns how long the command says that it measured, where the
// parameter seconds finds it on standard output or else on standard error.
func (command) ClaimOf(raw workload.Raw, p param.Values) (c workload.Claim, ok bool) {
	if p.Text("seconds") == "" {
		return c, false
	}
	res, err := decode(raw[execBlob])
	if err != nil {
		return c, false
	}
	v, err := extracted(p.Text("seconds"), res)
	if err != nil {
		res.Stdout = res.Stderr
		if v, err = extracted(p.Text("seconds"), res); err != nil {
			return c, false
		}
	}
	return workload.Claim{Seconds: v, Elapsed: float64(res.ElapsedNS) / 1e9, CPUSeconds: res.Usage.CPUSeconds()}, true
}
