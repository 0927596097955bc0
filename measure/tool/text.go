package tool

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"bakeoff/base/lazy"
	"bakeoff/base/param"
)

// Versioned is a Tool's Version: the fact "version" is the first group of the
// pattern in what the program printed.
type Versioned struct{ pattern *lazy.Regexp }

// VersionBy returns the Versioned of a pattern.
func VersionBy(pattern string) Versioned { return Versioned{lazy.Compile(pattern)} }

// Version implements Tool.
func (v Versioned) Version(out []byte) (map[string]string, error) {
	m := v.pattern.FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("the output %.60q contains no version (expected %s)", out, v.pattern)
	}
	return map[string]string{"version": string(m[1])}, nil
}

// WholeSeconds returns a parameter rounded up to whole seconds, the unit of
// most programs' options.
func WholeSeconds(p param.Values, name string) time.Duration {
	return time.Duration(math.Ceil(p.Duration(name).Seconds())) * time.Second
}

// Seconds is WholeSeconds as a number for a command line.
func Seconds(p param.Values, name string) string {
	return strconv.Itoa(int(WholeSeconds(p, name) / time.Second))
}
