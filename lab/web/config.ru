require_relative "shop"
Shop.initialize!
run Shop
