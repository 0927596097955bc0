// Package all lists the formats.
package all

import (
	"bakeoff/judge/format"
	"bakeoff/judge/format/asv"
	"bakeoff/judge/format/bonnie"
	"bakeoff/judge/format/criterion"
	"bakeoff/judge/format/fio"
	"bakeoff/judge/format/gobench"
	"bakeoff/judge/format/googlebench"
	"bakeoff/judge/format/h2load"
	"bakeoff/judge/format/hyperfine"
	"bakeoff/judge/format/jmh"
	"bakeoff/judge/format/openssl"
	"bakeoff/judge/format/pgbench"
	"bakeoff/judge/format/phoronix"
	"bakeoff/judge/format/pytest"
	"bakeoff/judge/format/redis"
	"bakeoff/judge/format/sysbench"
	"bakeoff/judge/format/systemd"
	"bakeoff/judge/format/wrk"
)

// Formats returns every format, in order of its name.
func Formats() []format.Format {
	return []format.Format{
		asv.New(),
		bonnie.New(),
		criterion.New(),
		fio.New(),
		gobench.New(),
		googlebench.New(),
		h2load.New(),
		hyperfine.New(),
		jmh.New(),
		openssl.New(),
		pgbench.New(),
		phoronix.New(),
		pytest.New(),
		redis.New(),
		sysbench.New(),
		systemd.New(),
		wrk.New(),
	}
}
