package hey

import (
	"testing"

	"bakeoff/measure/tool/tooltest"
)

func TestTool(t *testing.T) { tooltest.Run(t, New()) }

func FuzzParse(f *testing.F) { tooltest.Fuzz(f, New()) }
