return 'done'
