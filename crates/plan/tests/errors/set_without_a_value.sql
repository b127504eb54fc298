SET table.exec.state.ttl = ;
