package installed

import (
	"slices"
	"strings"
)

// MayBeOff reports whether systemd, dracut or the kernel takes the value of an argument of the kernel for false.
func MayBeOff(value string) bool {
	return slices.Contains([]string{"0", "no", "n", "false", "f", "off"}, strings.ToLower(value))
}

// SurelyOff reports whether every program takes the value of an argument of the kernel for false: dracut takes
// False and n for true.
func SurelyOff(value string) bool { return slices.Contains([]string{"0", "no", "off"}, value) }
