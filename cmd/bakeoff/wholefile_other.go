//go:build !linux

package main

import (
	"errors"
	"os"
)

// unnamed is for Linux.
func unnamed(string) (*os.File, func(name string) error, error) {
	return nil, nil, errors.ErrUnsupported
}
