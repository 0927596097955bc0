package http

import (
	"bakeoff/base/param"
	"bakeoff/measure/workload"
)

// Few implements workload.Counted: an open loop sends rate × time requests. How many a
// closed loop sends is not known in advance.
func (Workload) Few(p param.Values, metrics []string) (caveat, fix string) {
	return workload.FewAtRate(p, p.Duration("time"), "requests", metrics, quantiles)
}
