package netbsd

import (
	"testing"

	"bakeoff/reach/system/systemtest"
)

func TestSuite(t *testing.T) {
	systemtest.Run(t, System{}, map[string]systemtest.Answers{
		"rc runs":      {Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"pgrep -f /bin/sh /etc/rc( |$)": {Code: 0, Stdout: "17\n"}}}, Ready: false},
		"rc has ended": {Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"pgrep -f /bin/sh /etc/rc( |$)": {Code: 1, Stdout: ""}}}, Ready: true},
	})
}
