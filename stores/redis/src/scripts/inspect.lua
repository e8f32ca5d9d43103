return answer('seen')
