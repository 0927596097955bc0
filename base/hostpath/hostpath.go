// Package hostpath names files of all systems in one form, so that a controller can join
// and check the paths of a host without knowing its system: absolute, with slashes. A path
// of Windows begins with its drive, as SFTP writes it: /C:/Users/ann.
package hostpath

import "strings"

// hasDriveLetter reports whether p names a drive of Windows, "C:".
func hasDriveLetter(p string) bool {
	return len(p) == 2 && p[1] == ':' && ('a' <= p[0]|0x20 && p[0]|0x20 <= 'z')
}

// ofWindows returns the path as Windows writes it. What is not absolute is returned
// unchanged. A path without a drive is on the drive of the system, such as "C:".
func ofWindows(path, system string) string {
	rest, absolute := strings.CutPrefix(path, "/")
	if !absolute {
		return path
	}
	drive, rest, _ := strings.Cut(rest, "/")
	if !hasDriveLetter(drive) {
		drive, rest = system, path[1:]
	}
	return drive + `\` + strings.ReplaceAll(rest, "/", `\`)
}

// fromWindows is the inverse of ofWindows for an absolute path.
func fromWindows(path string) string {
	path = strings.ReplaceAll(path, `\`, "/")
	if len(path) >= 2 && hasDriveLetter(path[:2]) {
		path = "/" + path
	}
	return path
}

// Windows returns an absolute path as Windows writes it. A path without a drive is on C:.
func Windows(path string) string { return ofWindows(path, "C:") }

// FromWindows is the inverse of Windows.
func FromWindows(path string) string { return fromWindows(path) }
