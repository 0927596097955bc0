// Package all lists the formats.
package all

import (
	"bakeoff/judge/format"
	"bakeoff/judge/format/fio"
	"bakeoff/judge/format/gobench"
	"bakeoff/judge/format/hyperfine"
	"bakeoff/judge/format/phoronix"
	"bakeoff/judge/format/pytest"
)

// Formats returns every format, in order of its name.
func Formats() []format.Format {
	return []format.Format{
		fio.New(),
		gobench.New(),
		hyperfine.New(),
		phoronix.New(),
		pytest.New(),
	}
}
