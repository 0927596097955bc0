package dragonfly

import (
	"testing"

	"bakeoff/reach/system/systemtest"
)

func TestSuite(t *testing.T) {
	systemtest.Run(t, System{}, systemtest.RC)
}
