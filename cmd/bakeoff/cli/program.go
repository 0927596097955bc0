package cli

import (
	"fmt"
	"os"
)

// Program identifies the program for caches: a version can be the same for two builds of
// it, so the file's size and time are added.
func Program(version string) string {
	id := version
	if name, err := os.Executable(); err == nil {
		if info, err := os.Stat(name); err == nil {
			id += fmt.Sprint(" ", info.Size(), " ", info.ModTime().UnixNano())
		}
	}
	return id
}
