// Package early lets the agent enter a place, or serve as a container's init
// process, before the other packages initialize: packages initialize in the
// order of their import paths, as soon as what they import has. Only
// bakeoff-agent may import it.
package early

import (
	"os"

	"bakeoff/reach/nsenter"
)

func init() { nsenter.Early(os.Args) }
