//go:build !linux

package probe

import "bakeoff/base/facts"

// readInterfaces returns nothing: only Linux is read.
func readInterfaces() []facts.Interface { return nil }
