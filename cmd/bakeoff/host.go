package main

import (
	"bakeoff/conn"
	"bakeoff/conn/local"
)

// localHost is the machine that this program runs on.
func (a *app) localHost() conn.Conn {
	agent, err := agentPath(a.env)
	if err != nil {
		return local.Conn{}
	}
	return host{agent: agent}
}

// host is this machine, for drivers whose Check executes the agent.
type host struct {
	local.Conn
	agent string
}

// Agent is the path of bakeoff-agent.
func (h host) Agent() string { return h.agent }
