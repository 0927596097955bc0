// Package all lists the tools.
package all

import (
	"bakeoff/tool"
	"bakeoff/tool/bonnie"
	"bakeoff/tool/fio"
	"bakeoff/tool/openssl"
	"bakeoff/tool/pgbench"
	"bakeoff/tool/siege"
	"bakeoff/tool/sysbench"
	"bakeoff/tool/wrk"
)

// Tools returns every tool, in order of its name.
func Tools() []tool.Tool {
	return []tool.Tool{
		bonnie.New(),
		fio.New(),
		openssl.New(),
		pgbench.New(),
		siege.New(),
		sysbench.New(),
		wrk.New(),
	}
}
