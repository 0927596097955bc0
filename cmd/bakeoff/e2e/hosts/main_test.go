package hosts

import (
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
)

func TestMain(m *testing.M) { e2e.MainApart(m) }
