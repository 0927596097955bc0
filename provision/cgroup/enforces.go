package cgroup

import "maps"

// Enforces adds the limits that a control group enforces to those of a
// technology, by name.
func Enforces(own map[string]string) map[string]string {
	all := map[string]string{
		"quota": "control group cpu, if the host has that controller",
		"io": "control group io (blkio in version 1) on the disk that holds the environment's directory, if the " +
			"host has that controller",
	}
	maps.Copy(all, own)
	return all
}
