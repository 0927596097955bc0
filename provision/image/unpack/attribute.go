package unpack

import (
	"archive/tar"
	"slices"
	"strings"
)

// prefix precedes the names of extended attributes in the records of an archive.
const prefix = "SCHILY.xattr."

// attributes are the names of the extended attributes of an entry.
func attributes(h *tar.Header) []string {
	var out []string
	for key := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// The bounds of Linux for extended attributes.
const (
	maxAttributeName = 255
	maxAttribute     = 64 << 10
)

// allowed refuses attributes that change how the kernel mounts the root. An overlay
// keeps its own state in them: a link to other folders, and what it hides.
func allowed(name, value string) error {
	switch {
	case strings.HasPrefix(name, "trusted."), strings.HasPrefix(name, "user.overlay."):
		return refusal("the extended attribute %s changes how the kernel mounts the image", forMessage(name))
	case name == "" || len(name) > maxAttributeName || strings.ContainsRune(name, 0):
		return refusal("the name of an extended attribute has %d bytes, and 1 to %d are possible",
			len(name), maxAttributeName)
	case len(value) > maxAttribute:
		return refusal("the extended attribute %s has %d bytes; the limit is %d", forMessage(name), len(value),
			maxAttribute)
	}
	return nil
}

// isKept tells whether an attribute belongs to the image. Others belong to the security
// policy of the machine on which it was made.
func isKept(name string) bool {
	return name == "security.capability" || strings.HasPrefix(name, "user.") ||
		name == "system.posix_acl_access" || name == "system.posix_acl_default"
}
