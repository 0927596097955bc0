package probe

var cpStates = []string{"user", "nice", "system", "spin", "interrupt", "idle"}
