// Package all lists the tools.
package all

import (
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/ab"
	"bakeoff/measure/tool/bonnie"
	"bakeoff/measure/tool/fio"
	"bakeoff/measure/tool/h2load"
	"bakeoff/measure/tool/hey"
	"bakeoff/measure/tool/openssl"
	"bakeoff/measure/tool/pgbench"
	"bakeoff/measure/tool/siege"
	"bakeoff/measure/tool/sysbench"
	"bakeoff/measure/tool/wrk"
)

// Tools returns every tool, in order of its name.
func Tools() []tool.Tool {
	return []tool.Tool{
		ab.New(),
		bonnie.New(),
		fio.New(),
		h2load.New(),
		hey.New(),
		openssl.New(),
		pgbench.New(),
		siege.New(),
		sysbench.New(),
		wrk.New(),
	}
}
