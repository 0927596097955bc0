package cgroup

import "maps"

// Enforces adds to what a technology says of its limits, by name, those that
// its control group holds.
func Enforces(own map[string]string) map[string]string {
	all := map[string]string{
		"quota": "control group cpu, where the host has that controller",
		"io":    "control group io, or blkio of version 1, for the disk that the environment's directory is on, where the host has that controller and tells the disk",
	}
	maps.Copy(all, own)
	return all
}
