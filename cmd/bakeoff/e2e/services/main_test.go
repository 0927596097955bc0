// Package services tests the build of services: from a folder to a running microVM.
package services

import (
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
