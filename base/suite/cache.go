package suite

import (
	"os"
	"path/filepath"
)

// CacheFolder is bakeoff's cache folder, in which setup.sh keeps programs for tests. Package
// env has the same rule, but also links what changes machines.
func CacheFolder() string {
	switch {
	case os.Getenv("BAKEOFF_CACHE") != "":
		return os.Getenv("BAKEOFF_CACHE")
	case os.Getuid() == 0:
		return "/var/cache/bakeoff"
	case os.Getenv("XDG_CACHE_HOME") != "":
		return filepath.Join(os.Getenv("XDG_CACHE_HOME"), "bakeoff")
	}
	return filepath.Join(os.Getenv("HOME"), ".cache", "bakeoff")
}

// ImageFolder is the store of the images that the tests of lane 2 boot. bakeoff's own store is
// another one, so these tests do not wait while a test of lane 1 builds an image.
func ImageFolder() string { return filepath.Join(CacheFolder(), "images") }
