package main

import "syscall"

// freeBytes is how many bytes the file system of dir has free.
func freeBytes(dir string) (int64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return int64(fs.Bavail) * int64(fs.Bsize), err // the types differ between processors
}
