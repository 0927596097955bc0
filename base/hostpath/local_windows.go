package hostpath

import (
	"cmp"
	"os"
)

// Local returns a path as this system writes it.
func Local(path string) string { return ofWindows(path, cmp.Or(os.Getenv("SystemDrive"), "C:")) }

// Common returns a path of this system in the common form.
func Common(path string) string { return fromWindows(path) }
