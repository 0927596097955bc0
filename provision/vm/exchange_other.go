//go:build !linux

package vm

import "errors"

// exchange is only necessary on btrfs.
func exchange(string, string) error { return errors.ErrUnsupported }
